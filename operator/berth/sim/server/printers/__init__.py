"""Tables, as `kubectl get` prints them.

tables      objects as rows of cells
columns     the columns of the built-in kinds; workload_columns, layouts
jsonpath    the paths of the printer columns of custom resources
durations   ages
"""
