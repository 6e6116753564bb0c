"""Local sockets whose names another user of the host may take when nobody listens there."""

from __future__ import annotations

import os
import socket
import struct


def is_of_this_user(connection: socket.socket) -> bool:
    """Whether the process at the other end belongs to this user."""
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return bool(user == os.getuid())
