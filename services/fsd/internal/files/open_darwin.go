package files

import "golang.org/x/sys/unix"

// searchOnly opens a folder for traversal: O_SEARCH of <sys/fcntl.h>, which is O_EXEC|O_DIRECTORY.
const searchOnly = 0x40000000 | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
