import sys
from pathlib import Path

# reference.py is shared by the tests of this folder.
sys.path.insert(0, str(Path(__file__).parent))
