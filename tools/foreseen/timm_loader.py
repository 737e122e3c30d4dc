# does: timm's own ImageDataset and loader, of images
# needs: torch timm pillow
from files import EPOCHS, ROOT, WORKERS
from timm.data import create_dataset, create_loader

images = create_dataset("", ROOT, is_training=True)
loader = create_loader(
    images, (3, 8, 8), 50, is_training=True, use_prefetcher=False, num_workers=WORKERS
)
for _ in range(EPOCHS):
    for _ in loader:
        pass
