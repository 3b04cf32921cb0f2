#!/bin/sh
# Prints the first Python that has what handlers in Python need.
for python in python3 /usr/bin/python3; do
  if "$python" -c 'import cryptography, google.protobuf, grpc' 2>/dev/null; then
    command -v "$python"
    exit
  fi
done
echo "no Python with grpcio, protobuf and cryptography: on Debian, apt-get install python3-grpcio python3-cryptography" >&2
exit 1
