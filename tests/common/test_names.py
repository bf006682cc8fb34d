"""Names that are imported when they are first used."""

import gc
import sys
from importlib import import_module

import pytest

from gendr._common.names import lazily


def test_nothing_is_collected_while_a_module_is_imported(tmp_path, monkeypatch):
    (tmp_path / "home_of_a_name.py").write_text("import gc\nname = gc.isenabled()\n")
    (tmp_path / "broken_home.py").write_text("raise ImportError('broken')\n")
    monkeypatch.syspath_prepend(tmp_path)
    stub = "from home_of_a_name import name as name\nfrom broken_home import other as other\n"
    (tmp_path / "package.pyi").write_text(stub)
    module = {"__name__": "package", "__file__": str(tmp_path / "package.py")}
    get, _, names = lazily(module)
    assert names == ["name", "other"]
    assert get("name") is False
    assert gc.isenabled()
    with pytest.raises(ImportError, match="broken"):
        get("other")
    assert gc.isenabled()
    gc.disable()
    try:
        del sys.modules["home_of_a_name"]
        import_module("home_of_a_name")
        get("name")
        assert not gc.isenabled()  # as it was
    finally:
        gc.enable()
