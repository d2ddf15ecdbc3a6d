"""oci_image_test.py SOURCES: deploy/oci_image.py, and what deploy/Containerfile says through it."""

import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile
import unittest

SOURCES = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SOURCES / "deploy"))
import oci_image  # noqa: E402  # which is there

CONTAINERFILE = SOURCES / "deploy/Containerfile"


class OciImageTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ringway-oci-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.root = self.directory / "root"
        (self.root / "usr/bin").mkdir(parents=True)
        (self.root / "usr/bin/program").write_bytes(b"\x7fELF")
        (self.root / "usr/bin/program").chmod(0o755)
        (self.root / "bin").symlink_to("usr/bin")

    def image(self, name="image", epoch=0):
        layout = self.directory / name
        oci_image.build(CONTAINERFILE, self.root, "arm64", layout, epoch)
        return layout

    def blob(self, layout, descriptor):
        """A blob whose descriptor is right."""
        content = (layout / "blobs/sha256" / descriptor["digest"].removeprefix("sha256:")).read_bytes()
        self.assertEqual((f"sha256:{hashlib.sha256(content).hexdigest()}", len(content)), (descriptor["digest"], descriptor["size"]))
        return content

    def test_digests_lead_from_the_index_to_the_files(self):
        layout = self.image(epoch=1000)
        self.assertEqual(json.loads((layout / "oci-layout").read_text()), {"imageLayoutVersion": "1.0.0"})
        (described,) = json.loads((layout / "index.json").read_text())["manifests"]
        self.assertEqual(described["platform"], {"architecture": "arm64", "os": "linux"})
        manifest = json.loads(self.blob(layout, described))
        config = json.loads(self.blob(layout, manifest["config"]))
        (layer,) = manifest["layers"]
        tar = gzip.decompress(self.blob(layout, layer))
        self.assertEqual(config["rootfs"]["diff_ids"], [f"sha256:{hashlib.sha256(tar).hexdigest()}"])
        self.assertEqual((config["architecture"], config["os"]), ("arm64", "linux"))
        with tarfile.open(fileobj=io.BytesIO(tar)) as entries:
            self.assertEqual(entries.getnames(), ["bin", "usr", "usr/bin", "usr/bin/program"])
            program = entries.getmember("usr/bin/program")
            self.assertEqual((program.mode, program.mtime, program.uname), (0o755, 1000, ""))
            self.assertEqual(entries.getmember("bin").linkname, "usr/bin")
            self.assertEqual(entries.extractfile(program).read(), b"\x7fELF")

    def test_one_root_gives_one_image_whenever_it_was_made(self):
        first = self.image("first")
        os.utime(self.root / "usr/bin/program", (1, 1))
        second = self.image("second")
        self.assertEqual((first / "index.json").read_bytes(), (second / "index.json").read_bytes())
        (self.root / "usr/bin/program").write_bytes(b"another")
        self.assertNotEqual((first / "index.json").read_bytes(), (self.image("third") / "index.json").read_bytes())

    def test_the_containerfile_is_for_a_user_without_rights_and_has_a_health_check(self):
        config = oci_image.config_of(CONTAINERFILE.read_text(encoding="utf-8"))
        self.assertRegex(config["User"], r"^[1-9]\d*:[1-9]\d*$")
        manifests = (SOURCES / "deploy/examples/kubernetes").glob("*.yaml")
        self.assertIn(f"runAsUser: {config['User'].partition(':')[0]}", "".join(path.read_text() for path in manifests))
        self.assertEqual(config["Healthcheck"]["Test"], ["CMD", "ringway-ready"])
        self.assertEqual((config["Healthcheck"]["Interval"], config["Healthcheck"]["Retries"]), (10**10, 3))
        self.assertEqual(set(config["ExposedPorts"]), {"7400/tcp", "7401/tcp"})
        self.assertEqual(config["Cmd"], ["ringwayd", "--help"])
        self.assertTrue(any(word.startswith("PATH=") for word in config["Env"]))

    def test_an_instruction_that_would_be_lost_is_an_error_that_names_it(self):
        for line in ("VOLUME /data", "CMD ringwayd", 'CMD []', "HEALTHCHECK NONE", 'HEALTHCHECK --interval=10 CMD ["x"]',
                     'HEALTHCHECK --retries=x CMD ["x"]', 'CMD ["a", 1]'):
            with self.subTest(line), self.assertRaises(oci_image.ImageError):
                oci_image.config_of(line)

    def test_a_device_is_refused(self):
        os.mkfifo(self.root / "pipe")
        with self.assertRaisesRegex(oci_image.ImageError, "pipe is neither"):
            self.image()


if __name__ == "__main__":
    unittest.main()
