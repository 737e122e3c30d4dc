# does: a model with external data saved, checked, run by onnxruntime, optimized and saved
# needs: onnx onnxruntime numpy
import numpy as np
import onnx
import onnxruntime
from case import run
from onnx import TensorProto, helper, numpy_helper


def make(directory):
    kind = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1000]) for name in "xy"]
    weight = numpy_helper.from_array(np.ones(1000, "f4"), "w")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "g", kind[:1], kind[1:], [weight]
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    onnx.save(
        model, directory / "a.onnx", save_as_external_data=True, location="a.bin", size_threshold=0
    )


def use(directory):
    onnx.checker.check_model(str(directory / "a.onnx"))
    onnx.save(onnx.load(directory / "a.onnx"), directory / "out" / "b.onnx")
    for path in (directory / "a.onnx", directory / "out" / "b.onnx"):
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(directory / "out" / "optimized.onnx")
        session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        print(session.run(None, {"x": np.ones(1000, "f4")})[0].sum())


run(make, use)
