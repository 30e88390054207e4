"""Which packages the wheel holds; everything else about the project is in pyproject.toml.

`recipes` and `conf` stand at the top of a checkout, where they are read and edited, and travel
inside the package, so that no stray `conf` lands in site-packages. pyproject.toml can express that
mapping only with every package listed by hand.
"""

from setuptools import find_packages, setup

recipes = [f"sdrop.{name}" for name in find_packages(include=["recipes", "recipes.*"])]

setup(
    packages=[*find_packages(include=["sdrop", "sdrop.*"]), *recipes, "sdrop.conf"],
    package_dir={"sdrop.recipes": "recipes", "sdrop.conf": "conf"},
)
