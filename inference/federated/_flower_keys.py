"""Keys and certificates for secure sums on Flower: `python -I _flower_keys.py server HOST FOLDER` or `holder FOLDER…`.

This program runs in the environment of Flower, which contains the package cryptography. In each folder it creates the
file `key.pem`, which is secret (mode 0600), and a file for the other participants. For a server, this file is
`certificate.pem`, for the given host name or address. For a holder, it is `public.pem`. No existing file is replaced.
"""

import datetime
import ipaddress
import os
import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAYS = 30  # the number of days for which a certificate is valid


def make_key(folder):
    """Create a private key on the curve of Flower, in a folder of mode 0700."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    written = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with open(os.open(folder / "key.pem", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(written)
    return key


def make_certificate(key, host):
    """Return a certificate for the key of a server, which is signed with that key.

    The holders identify the server by their copy of the certificate.
    """
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "equistrata federate")])
    now = datetime.datetime.now(datetime.UTC)
    try:
        place = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        place = x509.DNSName(host)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([place]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA384())
    )


def main(role, *arguments):
    """Create the files of a server or of several holders."""
    if role == "server":
        host, folder = arguments
        made = make_certificate(make_key(Path(folder)), host).public_bytes(serialization.Encoding.PEM)
        Path(folder, "certificate.pem").write_bytes(made)
    elif role == "holder":
        for folder in arguments:
            public = make_key(Path(folder)).public_key()
            form = serialization.PublicFormat.SubjectPublicKeyInfo
            Path(folder, "public.pem").write_bytes(public.public_bytes(serialization.Encoding.PEM, form))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
