"""A Ray cluster: how programs connect to one, or start one on this machine."""

from __future__ import annotations

import os
import socket
from importlib import import_module
from typing import Any

__all__ = ["PATIENCE", "connect", "import_ray"]

PATIENCE = 5.0  # seconds that a cluster gets to answer


def import_ray() -> Any:
    """The module of Ray.

    Raises:
        RuntimeError: if it is not installed.
    """
    try:
        return import_module("ray")
    except ImportError:
        raise RuntimeError(
            "the executor ray needs Ray: pip install '.[cluster]' in the repository"
        ) from None


def connect(ray: Any, address: str | None, workers: int | None) -> None:
    """Connect to the cluster at an address, or start one here; `ray.shutdown()` ends it.

    Args:
        ray: the module.
        address: as `ray.init` takes it; None starts a cluster on this machine.
        workers: its cores, if it is started here; None is all.

    Raises:
        ConnectionError: if there is no cluster at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # the user was not asked
    # Without this, Ray warns whenever a task asks for no GPU.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    _check_address(address)
    # Only a cluster that is started here can be given a size.
    size = {} if address else {"num_cpus": workers, "include_dashboard": False}
    ray.init(address or "local", log_to_driver=False, logging_level="error", **size)


def _check_address(address: str | None) -> None:
    """Check that a program listens at HOST:PORT; Ray itself would try for minutes.

    Raises:
        ConnectionError: if none does.
    """
    host, _, port = (address or "").rpartition(":")
    if not port.isdecimal() or "/" in host:
        return  # such as "auto", or the address of a client's server
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except OSError as error:
        raise ConnectionError(f"no Ray cluster answers at {address} ({error})") from None
