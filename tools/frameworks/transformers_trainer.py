# does: Trainer over a dataset of the mount: checkpoints with a limit, resumed from the last
# needs: transformers>=5.20 accelerate datasets>=5.2 torch
import datasets
import transformers
from case import run

transformers.logging.set_verbosity_error()


def make(directory):
    rows = {"input_ids": [[1, 2, 3, 4]] * 64, "labels": [[1, 2, 3, 4]] * 64}
    datasets.Dataset.from_dict(rows).save_to_disk(directory / "rows")
    config = transformers.GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2, n_positions=16)
    transformers.GPT2LMHeadModel(config).save_pretrained(directory / "model")


def trainer(directory, steps):
    made = transformers.Trainer(
        model=transformers.AutoModelForCausalLM.from_pretrained(directory / "model"),
        train_dataset=datasets.load_from_disk(directory / "rows"),
        args=transformers.TrainingArguments(
            output_dir=str(directory / "out" / "run"),
            max_steps=steps,
            save_steps=2,
            save_total_limit=2,
            use_cpu=True,
            disable_tqdm=True,
            report_to=[],
            dataloader_num_workers=1,
        ),
    )
    made.remove_callback(transformers.PrinterCallback)
    return made


def use(directory):
    trainer(directory, 4).train()
    again = trainer(directory, 6)
    again.train(resume_from_checkpoint=True)
    print(again.state.global_step, sorted(p.name for p in (directory / "out" / "run").iterdir()))


if __name__ == "__main__":
    run(make, use)
