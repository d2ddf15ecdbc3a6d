"""error_docs.py README.md HEADER: writes the docstrings of the exceptions, which are the rows of *Errors* in client/README.md."""
import pathlib
import re
import sys


def docs(readme: str) -> dict[str, str]:
    """By code: what it means, and what to do."""
    table = readme.partition("\n## Errors\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_]+)` \| (.+?) \| (.+?) \|$", re.sub(r"\[(.+?)\]\(.+?\)", r"\1", table), re.MULTILINE)
    return {code: f"{meaning[0].upper()}{meaning[1:]}.\n\nWhat to do: {advice}." for code, meaning, advice in rows}


if __name__ == "__main__":
    found = docs(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    if not found:
        sys.exit(f"{sys.argv[1]} has no table of errors")
    rows = "".join(f'    {{"{code}", R"doc({text})doc"}},\n' for code, text in found.items())
    pathlib.Path(sys.argv[2]).write_text(
        "// The docstrings of the exceptions: made by error_docs.py of the table in client/README.md.\n"
        "#pragma once\n\n#include <utility>\n\nnamespace ringway::python {\n\n"
        f"inline constexpr std::pair<const char*, const char*> kErrorDocs[] = {{\n{rows}}};\n\n"
        "}  // namespace ringway::python\n", encoding="utf-8")
