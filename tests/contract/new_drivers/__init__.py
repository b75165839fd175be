"""Two further drivers, which `test_new_driver.py` puts into a copy of the tree."""
