"""Builds the extension for Visual Studio Code: python editors/vscode/package.py [FILE.vsix].

A .vsix file is a zip of the extension's files with two descriptions in XML. The same files give the same bytes.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tensorproof.files import write_bytes

FOLDER = Path(__file__).resolve().parent
#: The files of the extension, by their names in the package.
CONTENT = {
    "extension/package.json": FOLDER / "package.json",
    "extension/extension.js": FOLDER / "extension.js",
    "extension/readme.md": FOLDER / "README.md",
    "extension/LICENSE.txt": FOLDER.parents[1] / "LICENSE",
}
SCHEMA = "http://schemas.microsoft.com/developer/vsx-schema/2011"
CONTENT_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
MEDIA_TYPES = {
    "json": "application/json",
    "js": "application/javascript",
    "md": "text/markdown",
    "txt": "text/plain",
    "vsixmanifest": "text/xml",
}
_TIME = (2020, 1, 1, 0, 0, 0)


def vsix_manifest(package: dict[str, Any]) -> bytes:
    """What the editor reads first: who the extension is, what it needs, and where its parts are."""
    manifest = ElementTree.Element("PackageManifest", {"Version": "2.0.0", "xmlns": SCHEMA})
    metadata = ElementTree.SubElement(manifest, "Metadata")
    identity = {"Language": "en-US", "Id": package["name"], "Version": package["version"], "Publisher": package["publisher"]}
    ElementTree.SubElement(metadata, "Identity", identity)
    texts = {
        "DisplayName": package["displayName"],
        "Description": package["description"],
        "Tags": ",".join(package["keywords"]),
        "Categories": ",".join(package["categories"]),
        "GalleryFlags": "Public",
        "License": "extension/LICENSE.txt",
    }
    for name, text in texts.items():
        ElementTree.SubElement(metadata, name).text = text
    properties = ElementTree.SubElement(metadata, "Properties")
    values = {"Engine": package["engines"]["vscode"], "ExtensionKind": ",".join(package["extensionKind"])}
    for name, value in values.items():
        ElementTree.SubElement(properties, "Property", {"Id": f"Microsoft.VisualStudio.Code.{name}", "Value": value})
    installation = ElementTree.SubElement(manifest, "Installation")
    ElementTree.SubElement(installation, "InstallationTarget", {"Id": "Microsoft.VisualStudio.Code"})
    ElementTree.SubElement(manifest, "Dependencies")
    assets = ElementTree.SubElement(manifest, "Assets")
    kinds = {
        "Microsoft.VisualStudio.Code.Manifest": "extension/package.json",
        "Microsoft.VisualStudio.Services.Content.Details": "extension/readme.md",
        "Microsoft.VisualStudio.Services.Content.License": "extension/LICENSE.txt",
    }
    for kind, path in kinds.items():
        ElementTree.SubElement(assets, "Asset", {"Type": kind, "Path": path, "Addressable": "true"})
    return _document(manifest)


def content_types() -> bytes:
    """The media type of every file name extension in the package."""
    types = ElementTree.Element("Types", {"xmlns": CONTENT_TYPES})
    for extension, media_type in sorted(MEDIA_TYPES.items()):
        ElementTree.SubElement(types, "Default", {"Extension": f".{extension}", "ContentType": media_type})
    return _document(types)


def build() -> bytes:
    """The whole package."""
    package = json.loads(CONTENT["extension/package.json"].read_text("utf-8"))
    files = {"extension.vsixmanifest": vsix_manifest(package), "[Content_Types].xml": content_types()}
    files |= {name: path.read_bytes() for name, path in CONTENT.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, _TIME), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def main(arguments: list[str]) -> int:
    """Write the package; its name has the version unless it is given."""
    version = json.loads(CONTENT["extension/package.json"].read_text("utf-8"))["version"]
    target = Path(arguments[0]) if arguments else Path(f"tensorproof-{version}.vsix")
    write_bytes(target, build())
    print(f"{target} written")
    return 0


def _document(root: ElementTree.Element) -> bytes:
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
