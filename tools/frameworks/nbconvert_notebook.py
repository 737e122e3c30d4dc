# does: a notebook of the mount executed by a kernel, the result written there
# needs: nbconvert ipykernel
import nbformat
from case import run
from nbconvert.preprocessors import ExecutePreprocessor


def make(directory):
    (directory / "a.txt").write_text("7")
    cell = nbformat.v4.new_code_cell("print(6 * int(open('a.txt').read()))")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), directory / "a.ipynb")


def use(directory):
    book = nbformat.read(directory / "a.ipynb", 4)
    ExecutePreprocessor(timeout=200).preprocess(book, {"metadata": {"path": directory}})
    nbformat.write(book, directory / "out" / "b.ipynb")
    print(nbformat.read(directory / "out" / "b.ipynb", 4).cells[0].outputs[0].text)


run(make, use)
