# does: a DocBin of the mount read, a pipeline trained, to_disk and load
# needs: spacy
import spacy
from case import run
from spacy.tokens import DocBin
from spacy.training import Example


def make(directory):
    blank = spacy.blank("en")
    DocBin(docs=[blank(text) for text in ("a good film", "a bad film")] * 5).to_disk(
        directory / "a.spacy"
    )


def use(directory):
    spacy.util.fix_random_seed(0)
    pipeline = spacy.blank("en")
    docs = list(DocBin().from_disk(directory / "a.spacy").get_docs(pipeline.vocab))
    pipeline.add_pipe("textcat").add_label("good")
    pipeline.get_pipe("textcat").add_label("bad")
    kinds = [{"cats": {"good": "good" in d.text, "bad": "bad" in d.text}} for d in docs]
    pipeline.initialize(lambda: [Example.from_dict(d, k) for d, k in zip(docs, kinds, strict=True)])
    pipeline.update([Example.from_dict(d, k) for d, k in zip(docs, kinds, strict=True)])
    pipeline.to_disk(directory / "out" / "model")
    again = spacy.load(directory / "out" / "model")
    print(again.pipe_names, sorted(again("a good film").cats))


run(make, use)
