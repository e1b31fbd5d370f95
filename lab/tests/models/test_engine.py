import pytest

from fedwqcp.errors import InputError

torch = pytest.importorskip("torch", reason="the extra torch")

from fedwqcp_lab.models.engine import Engine, find_device  # noqa: E402


def test_the_cpu_computes_in_float32_one_model_at_a_time():
    engine = Engine().on(torch.device("cpu"))
    assert engine == Engine("grouped", "fp32", graph=False, chunk=1)
    engine = Engine("windows", "tf32", graph=True, chunk=5).on(torch.device("cpu"))
    assert engine == Engine("windows", "tf32", graph=False, chunk=5)


def test_the_precision_of_torch_comes_back():
    before = torch.get_float32_matmul_precision()
    with Engine(precision="tf32").active():
        assert torch.get_float32_matmul_precision() == "high"
        with Engine(precision="fp32").active():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA")
def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="no CUDA"):
        find_device("cuda")
