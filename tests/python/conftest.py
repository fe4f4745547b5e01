import sys
from pathlib import Path

# Worker processes import the test's module by name, and that module imports worlds.
sys.path.insert(0, str(Path(__file__).parent))
