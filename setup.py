"""Builds the native libraries with the C compiler alone: no Python headers are needed.

The transport is built where it is used, with the MPI that is there: a wheel brings its sources.
"""

import os
import shutil
import sys
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))
import native


def transport_sources():
    """What the transport is compiled from."""
    folder = native.CSRC / "transport"
    machine = native.CSRC / "node" / "machine"
    headers = [machine / "queue.h", machine / "transport.h"]
    return [*sorted(folder.glob("*.[ch]")), *headers]


class BuildNative(Command):
    """Compiles csrc into fanstore/_native, of the source tree when the install is editable."""

    description = "build the native libraries, fanstore-trap and the declarations"
    user_options = []
    editable_mode = False

    def initialize_options(self):
        self.build_lib = None

    def finalize_options(self):
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def folder(self):
        if self.editable_mode:
            return native.IN_PLACE
        return Path(self.build_lib).resolve() / "fanstore" / "_native"

    def run(self):
        objects = native.OBJECTS if self.editable_mode else None
        native.Builder(self.folder(), objects=objects).build()
        if not self.editable_mode:
            for stamp in self.folder().glob("*.stamp"):
                stamp.unlink()
            for source, copy in self.copied_files().items():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy)

    def copied_files(self):
        """The transport's sources, the libraries that tools/release.py made of them, and where they
        go in the package."""
        package = self.folder().parent / "transport"
        copied = {p: package / p.relative_to(native.ROOT) for p in transport_sources()}
        brought = os.environ.get("FANSTORE_TRANSPORTS")
        libraries = sorted(Path(brought).glob("*.so")) if brought else []
        return copied | {path: self.folder() / path.name for path in libraries}

    def get_source_files(self):
        return [str(p.relative_to(native.ROOT)) for p in sorted(native.CSRC.rglob("*.[ch]"))]

    def get_outputs(self):
        if self.editable_mode:
            return []
        libraries = [self.folder() / name for name in native.OUTPUTS]
        return [str(path) for path in [*libraries, *self.copied_files().values()]]

    def get_output_mapping(self):
        return {}


class Build(build):
    sub_commands = [*build.sub_commands, ("build_native", None)]


class Wheel(bdist_wheel):
    """One wheel for every Python 3 of a platform: the libraries do not use Python's ABI."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class NativeDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(
    distclass=NativeDistribution,
    cmdclass={"build": Build, "build_native": BuildNative, "bdist_wheel": Wheel},
)
