# does: a model with a checkpoint from the mount, create_dataset over images, save
# needs: timm torch pillow
import timm
import timm.data
import torch
from case import run
from PIL import Image


def make(directory):
    torch.save(timm.create_model("resnet10t").state_dict(), directory / "w.pth")
    (directory / "images" / "cat").mkdir(parents=True)
    for n in range(8):
        Image.new("RGB", (64, 64), (n, n, n)).save(directory / "images" / "cat" / f"{n}.png")


def use(directory):
    model = timm.create_model("resnet10t", checkpoint_path=str(directory / "w.pth")).eval()
    images = timm.data.create_dataset("", str(directory / "images"))
    loader = timm.data.create_loader(
        images, (3, 64, 64), 4, num_workers=2, use_prefetcher=False, persistent_workers=False
    )
    with torch.no_grad():
        print([tuple(model(x).shape) for x, _ in loader])
    timm.utils.CheckpointSaver(
        model, torch.optim.SGD(model.parameters()), checkpoint_dir=str(directory / "out")
    ).save_checkpoint(0, metric=1.0)
    print(sorted(p.name for p in (directory / "out").iterdir()))


if __name__ == "__main__":
    run(make, use)
