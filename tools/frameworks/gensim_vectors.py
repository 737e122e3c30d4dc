# does: LineSentence, Word2Vec saved in several files, loaded with mmap
# needs: gensim
from case import run
from gensim.models import KeyedVectors, Word2Vec
from gensim.models.word2vec import PathLineSentences


def make(directory):
    (directory / "texts").mkdir()
    for n in range(3):
        (directory / "texts" / f"{n}.txt").write_text("the quick brown fox and the lazy dog\n" * 50)


def use(directory):
    texts = PathLineSentences(str(directory / "texts"))
    model = Word2Vec(texts, vector_size=16, workers=1, seed=1, epochs=1)
    model.wv.save(str(directory / "out" / "wv"), separately=["vectors"])
    again = KeyedVectors.load(str(directory / "out" / "wv"), mmap="r")
    print(sorted(again.key_to_index), type(again.vectors).__name__)
    model.wv.save_word2vec_format(str(directory / "out" / "wv.bin"), binary=True)
    print(KeyedVectors.load_word2vec_format(directory / "out" / "wv.bin", binary=True)["fox"].shape)


run(make, use)
