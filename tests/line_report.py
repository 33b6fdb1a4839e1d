"""Prints what exceeds the size budgets and the total; informs, never fails. Run it from anywhere: python tests/line_report.py"""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("functx", "transforms", "backends", "tests", "examples", "benchmarks")
SUFFIXES = {".py", ".cpp", ".h"}
FILE_LINES, FUNCTION_LINES, PUBLIC_METHODS = 600, 60, 15


def oversized(tree: ast.AST):
    """(line, text) of each function and class over budget."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, functions):
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield node.lineno, f"function {node.name}: {lines} lines (budget {FUNCTION_LINES})"
        elif isinstance(node, ast.ClassDef):
            # A property's getter and setter are one public name.
            public = {item.name for item in node.body if isinstance(item, functions) and not item.name.startswith("_")}
            if len(public) > PUBLIC_METHODS:
                yield node.lineno, f"class {node.name}: {len(public)} public methods (budget {PUBLIC_METHODS})"


def main() -> None:
    totals = {}
    for folder in FOLDERS:
        for path in sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES):
            text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
            lines = len(text.splitlines())
            totals[folder] = totals.get(folder, 0) + lines
            if lines > FILE_LINES:
                print(f"{name}: {lines} lines (budget {FILE_LINES})")
            if path.suffix == ".py":
                for line, message in oversized(ast.parse(text)):
                    print(f"{name}:{line}: {message}")
    print("lines:", ", ".join(f"{folder} {count}" for folder, count in totals.items()), f"- {sum(totals.values())} in total")


if __name__ == "__main__":
    main()
