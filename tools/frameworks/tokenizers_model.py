# does: train from files, save, load (Rust)
# needs: tokenizers
from case import run
from tokenizers import Tokenizer, models, pre_tokenizers, trainers


def make(directory):
    for n in range(5):
        (directory / f"{n}.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 20)


def use(directory):
    tokenizer = Tokenizer(models.BPE(unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    files = sorted(map(str, directory.glob("*.txt")))
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=["?"], show_progress=False)
    tokenizer.train(files, trainer)
    tokenizer.save(str(directory / "out" / "t.json"))
    print(len(Tokenizer.from_file(str(directory / "out" / "t.json")).encode("the lazy fox").ids))


run(make, use)
