# does: train from files, load, encode (C++)
# needs: sentencepiece
import sentencepiece as spm
from case import run


def make(directory):
    for n in range(3):
        (directory / f"{n}.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 50)


def use(directory):
    spm.SentencePieceTrainer.train(
        input=",".join(str(path) for path in sorted(directory.glob("*.txt"))),
        model_prefix=str(directory / "out" / "m"),
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    model = spm.SentencePieceProcessor(model_file=str(directory / "out" / "m.model"))
    print(model.decode(model.encode("the lazy fox")), model.vocab_size())


run(make, use)
