"""Report formats that other programs read: JUnit XML, SARIF, annotations of GitHub Actions.

`verify`, `lint`, `policy check` and `eval` say what goes into them.
"""
