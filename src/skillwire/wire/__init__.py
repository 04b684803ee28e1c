"""The JSON of each dialect, turned into entries and back. Pure: values in, values out."""
