#!/usr/bin/env python3
"""A handler of files for acphost: it reads, writes and resolves text files on this machine.

A path is resolved first, and judged by where it leads. It is then opened folder by folder from its root without following a link,
so an agent that swaps a folder for a link meanwhile gets an error."""

import errno
import os
import re
import secrets
import stat
import threading

import grpc

import handler
from handler import Status

SERVICE = 'acphost.fs.v1.FileSystemService'
ReadResponse, WriteResponse, ResolveResponse = (handler.message(f'acphost.fs.v1.{n}Response') for n in ('ReadTextFile', 'WriteTextFile', 'Resolve'))
INVALID, DENIED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED

max_bytes = 10 << 20  # the most that is read at once
protected = []  # absolute paths that no agent may touch
HFS_IGNORES = '[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]'
GIT_PARTS = set('head config config.worktree hooks objects refs info commondir gitdir packed-refs index modules worktrees logs reftable '
                'shallow sharedindex'.split())

writing = threading.Lock()  # writes happen one after another


def configure(settings, host, validate_only):
    """Settings: {max_bytes: 1 to 62914560}."""
    global max_bytes, protected
    for name in settings:
        if name != 'max_bytes':
            raise ValueError(f'settings: {name}: no such setting')
    most = settings.get('max_bytes', 10 << 20)
    if isinstance(most, bool) or not isinstance(most, (int, float)) or most != int(most) or not 1 <= most <= 60 << 20:
        raise ValueError(f'settings: max_bytes: {most!r} is not a number from 1 to {60 << 20}')
    if not validate_only:
        max_bytes = int(most)
        if host is not None:
            protected = list(host.protected_paths)


def below(folder, path):
    return path == folder or path.startswith(folder.rstrip('/') + '/')


def resolve(request):
    """Says where a path leads. The supervisor asks before it decides about a call; no agent can."""
    path, roots = request.path, request.context.roots
    if not roots:
        raise Status(INVALID, 'context: it has no roots, which say where the call may go')
    if not path.startswith('/') or '\0' in path:
        raise Status(INVALID, f'{path!r} is not an absolute path')
    real_roots = [(os.path.realpath(root.path), root) for root in roots]
    at = ResolveResponse(path=os.path.normpath('/' + path.lstrip('/')))
    here = '/'
    for name in path.split('/'):  # a path that leaves the roots on its way is refused, even if it comes back
        here = os.path.normpath(os.path.join(here, name))
        places = (here, os.path.realpath(here))
        spelled = [real for real, _ in real_roots] + [os.path.normpath(root.path) for root in roots]
        if not any(below(root, place) or below(place, root) for root in spelled for place in places):
            at.protected = guarded(at.path)
            return at
    at.path = os.path.realpath(path)
    try:
        mode = os.lstat(at.path).st_mode
        if stat.S_ISLNK(mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        at.exists = True
    except FileNotFoundError:
        at.exists = False
    except OSError as error:
        raise Status(INVALID, f'{path} cannot be followed: {error.strerror}') from None
    inside = [(len(real), root.read_only, root) for real, root in real_roots if below(real, at.path)]
    if inside:
        _, at.read_only, root = max(inside, key=lambda found: found[:2])
        at.inside_roots, at.root = True, root.path
    at.protected = guarded(at.path) or guarded(os.path.normpath(path))
    return at


def guarded(path):
    """Whether a path is protected: by its name, as the same file under another name, or as something below such a folder."""
    for own in protected:
        if below(own, path) or below(os.path.realpath(own), path):
            return True
        place = path
        while True:
            try:
                if os.path.samefile(place, own):
                    return True
            except OSError:
                pass
            if place == '/':
                break
            place = os.path.dirname(place)
        try:
            found = os.lstat(path)
            if stat.S_ISREG(found.st_mode) and found.st_nlink > 1 and os.path.isdir(own) and holds(own, found):
                return True
        except OSError:
            pass
    return False


def holds(folder, file):
    def failed(error):
        raise error
    try:
        for at, _, names in os.walk(folder, onerror=failed):
            for name in names:
                if os.path.samestat(os.lstat(os.path.join(at, name)), file):
                    return True
    except OSError:
        return True  # a folder that cannot be searched may hold it
    return False


def gits(path):
    """Whether git believes what a file says: what is in a .git, in any spelling that some file system takes for it, and what is in
    a folder that is a repository without that name, or makes one. internal/git has the same rules in Go."""
    folder = '/'
    for name in path.split('/'):
        lower = name.lower()
        if re.sub(HFS_IGNORES, '', lower).split(':')[0].rstrip('. ') in ('.git', 'git~1'):
            return True
        if lower in GIT_PARTS:
            def has(part):
                return part.lower() == lower or os.path.lexists(os.path.join(folder, part))
            if has('HEAD') and (has('commondir') or has('objects') and (has('refs') or has('reftable'))):
                return True
        folder = os.path.join(folder, name)
    return False


def enter(request, write):
    """Where a path leads, if the call may go there."""
    at, path = resolve(request), request.path
    if not at.inside_roots:
        raise Status(INVALID, f'Path escapes workspace: {path}')
    if at.protected:
        raise Status(DENIED, f'{path} belongs to acphost itself')
    if write and at.read_only:
        raise Status(DENIED, f'{path} lies in {at.root}, which may only be read')
    if write and (gits(at.path) or gits(path)):
        raise Status(DENIED, f"{path} is git's own: git runs what such files say")
    seen = request.context.resolved_path.path
    if seen and seen != at.path:
        raise Status(grpc.StatusCode.FAILED_PRECONDITION, f'{path} leads elsewhere than when it was allowed')
    return at


class Folder:
    """The folder that a resolved path lies in, opened from its root on without following a link."""

    def __init__(self, at, make=False):
        root = os.path.realpath(at.root)
        parts = os.path.relpath(at.path, root).split('/')
        if '..' in parts:  # the root leads elsewhere by now
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        self.name = parts.pop()
        self.fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in parts:
                if make:
                    try:
                        os.mkdir(part, 0o777, dir_fd=self.fd)
                    except FileExistsError:
                        pass
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd)
                os.close(self.fd)
                self.fd = below
        except OSError:
            os.close(self.fd)
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)


def agent_error(error, path):
    """The error for the agent. Only the error for a missing file may state that: agents create files when they read such words."""
    if isinstance(error, FileNotFoundError):
        return Status(grpc.StatusCode.NOT_FOUND, f'Resource not found: {path}')
    if isinstance(error, PermissionError):
        return Status(DENIED, f'{path}: the system does not permit it')
    plain = error.errno in (errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.ENXIO, errno.ELOOP)
    return Status(INVALID if plain else grpc.StatusCode.INTERNAL, f'{path}: {error.strerror}')


def read(request):
    at = enter(request, False)
    try:
        with Folder(at) as folder:
            # A named pipe would wait for a writer.
            fd = os.open(folder.name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=folder.fd)
        with open(fd, 'rb') as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise Status(INVALID, f'{request.path}: it is not a regular file')
            whole = not request.HasField('line') and not request.HasField('limit')
            if whole and found.st_size > max_bytes:
                raise too_large(request.path, found.st_size)
            content = lines(file, request)
    except OSError as error:
        raise agent_error(error, request.path) from None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = '\0'
    if '\0' in text:
        raise Status(INVALID, f'{request.path}: it is not a text file')
    return ReadResponse(content=text)


def lines(file, request):
    first = max(request.line, 1)
    count = request.limit if request.HasField('limit') else None
    out, size, line = [], 0, 1
    while count is None or line < first + count:
        part = file.readline(64 << 10)
        if not part:
            break
        if line >= first:
            out.append(part)
            size += len(part)
        if size > max_bytes:
            raise too_large(request.path, size)
        if part.endswith(b'\n'):
            line += 1
    return b''.join(out)


def too_large(path, size):
    return Status(grpc.StatusCode.OUT_OF_RANGE, f'{path}: {size} bytes are more than {max_bytes}: read it in parts, by line and limit')


def write(request):
    """Writes a new file and renames it over the old one, so that no reader gets half of it. A file with several names is
    written as it is, so that it keeps them."""
    if request.path.endswith(('/', '/.')):
        raise Status(INVALID, f'{request.path}: it is a folder')
    with writing:
        at = enter(request, True)
        try:
            with Folder(at, make=True) as folder:
                replace(folder, request.content.encode(), request.path)
        except OSError as error:
            raise agent_error(error, request.path) from None
    return WriteResponse()


def replace(folder, content, path):
    try:
        old = os.stat(folder.name, dir_fd=folder.fd, follow_symlinks=False)
    except FileNotFoundError:
        old = None
    if old and not stat.S_ISREG(old.st_mode):
        raise Status(INVALID, f"{path}: it is {'a folder' if stat.S_ISDIR(old.st_mode) else 'not a regular file'}")
    if old and old.st_nlink > 1:
        fd = os.open(folder.name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=folder.fd)
        with open(fd, 'wb') as file:
            if not os.path.samestat(os.fstat(fd), old):
                raise Status(grpc.StatusCode.FAILED_PRECONDITION, f'{path} was replaced meanwhile')
            os.ftruncate(fd, 0)
            file.write(content)
        return
    beside = '.files-' + secrets.token_hex(16)
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder.fd)
    try:
        with open(fd, 'wb') as file:
            file.write(content)
            if old:
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
        os.rename(beside, folder.name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
    except OSError:
        os.unlink(beside, dir_fd=folder.fd)
        raise


if __name__ == '__main__':
    handler.serve('files-python', '1.0.0', {SERVICE: {'ReadTextFile': read, 'WriteTextFile': write, 'Resolve': resolve}}, configure)
