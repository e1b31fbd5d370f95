"""A small stand-in for the proxies of ``deploy/``: TLS on both sides, the fleet path alone."""

from __future__ import annotations

import http.client
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOP = {"connection", "transfer-encoding", "host", "keep-alive"}


def serve(port: int, upstream: int, certs: Path) -> None:
    """Pass requests on until the process ends."""
    trust = ssl.create_default_context(cafile=str(certs / "ca.crt"))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Pass on what asks for the fleet path; refuse the rest."""
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if not self.path.startswith("/v1/fleet/") or ".." in self.path or "%" in self.path:
                return self._say(403, {}, b"")
            link = http.client.HTTPSConnection("localhost", upstream, context=trust, timeout=60)
            kept = {k: v for k, v in self.headers.items() if k.lower() not in HOP}
            link.request(self.command, self.path, body, kept)
            reply = link.getresponse()
            said = reply.read()
            return self._say(reply.status, dict(reply.getheaders()), said)

        def _say(self, status: int, headers: dict[str, str], body: bytes) -> None:
            """Send a reply."""
            self.send_response(status)
            for key, value in headers.items():
                if key.lower() not in HOP | {"content-length", "server", "date"}:
                    self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 (the name that http.server calls)

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs / "server.pem", certs / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
