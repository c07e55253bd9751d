"""Where things are."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PEERS = HERE / "peers"
GO_SOURCES = HERE / "go"
CACHE = ROOT / ".bench"  # environments of the peers, kept from run to run; git ignores it
