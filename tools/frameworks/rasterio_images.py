# does: GeoTIFF: windows, overviews, a virtual mosaic, tiles written in place (GDAL)
# needs: rasterio numpy
import numpy as np
import rasterio
from case import run
from rasterio.merge import merge
from rasterio.windows import Window

SHAPE = {"driver": "GTiff", "width": 512, "height": 512, "count": 1, "dtype": "uint8"}
TILES = {"tiled": True, "blockxsize": 128, "blockysize": 128, "compress": "deflate"}


def make(directory):
    for n in range(2):
        place = rasterio.transform.from_origin(512 * n, 512, 1, 1)
        with rasterio.open(directory / f"{n}.tif", "w", transform=place, **SHAPE, **TILES) as sink:
            sink.write(np.full((512, 512), n + 1, "u1"), 1)


def use(directory):
    paths = sorted(directory.glob("*.tif"))
    with rasterio.open(paths[1]) as image:
        print(image.read(1, window=Window(100, 100, 50, 50)).sum(), image.bounds)
    print(merge(paths)[0].sum())
    with rasterio.open(directory / "out" / "b.tif", "w", **SHAPE, **TILES) as sink:
        sink.write(np.ones((128, 128), "u1"), 1, window=Window(128, 128, 128, 128))
    with rasterio.open(directory / "out" / "b.tif", "r+") as sink:
        sink.build_overviews([2, 4])
        sink.update_tags(note="more")
    with rasterio.open(directory / "out" / "b.tif") as image:
        print(image.read(1).sum(), image.overviews(1), image.tags()["note"])


run(make, use)
