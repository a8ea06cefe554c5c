"""Settings: what can be set (`schema`), and how files and overrides become settings (`loading`)."""

from focat.config.loading import dump_settings, load_settings, load_whole_settings, override_decoding
from focat.config.schema import Settings

__all__ = ["Settings", "dump_settings", "load_settings", "load_whole_settings", "override_decoding"]
