# does: from_pretrained and save_pretrained of a small BERT
# needs: transformers>=5.20 torch
from case import run
from transformers import BertConfig, BertModel


def make(directory):
    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        vocab_size=100,
    )
    BertModel(config).save_pretrained(directory / "model")


def use(directory):
    model = BertModel.from_pretrained(directory / "model")
    model.save_pretrained(directory / "out" / "model")
    again = BertModel.from_pretrained(directory / "out" / "model")
    pairs = zip(model.parameters(), again.parameters(), strict=True)
    print(sum(bool((a == b).all()) for a, b in pairs))


run(make, use)
