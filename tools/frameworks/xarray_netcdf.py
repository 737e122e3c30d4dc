# does: open_mfdataset over netCDF files with dask, to_netcdf, append, to_zarr
# needs: xarray netCDF4 dask zarr numpy
import netCDF4
import numpy as np
import xarray as xr
from case import run


def make(directory):
    for n in range(3):
        rows = xr.Dataset({"v": ("t", np.full(100, n))}, {"t": np.arange(100) + 100 * n})
        rows.to_netcdf(directory / f"{n}.nc")


def use(directory):
    with xr.open_mfdataset(str(directory / "*.nc"), parallel=False) as rows:
        print(int(rows.v.sum()))
        rows.to_netcdf(directory / "out" / "all.nc")
        rows.to_zarr(directory / "out" / "all.zarr", zarr_format=2)
    with netCDF4.Dataset(directory / "out" / "all.nc", "a") as file:
        file.note = "more"
    with xr.open_dataset(directory / "out" / "all.nc") as rows:
        print(int(rows.v.sum()), rows.attrs)
    print(int(xr.open_zarr(directory / "out" / "all.zarr").v.sum()))


run(make, use)
