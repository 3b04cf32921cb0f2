package config

// Folder returns acphost's own folder among the user's configurations: acphost under $XDG_CONFIG_HOME, else under
// ~/.config. Empty: the environment names neither it nor a home directory. env looks up environment variables, as
// os.Getenv does.
func Folder(env func(string) string) string { return defaultFolder(env) }

// ReadOwn returns the content of a file that says what is started, such as the configuration: a regular one of at most
// 1 MiB that no other user could have written. The error wraps fs.ErrNotExist if it is missing, and else says what to do.
func ReadOwn(path string) ([]byte, error) {
	data, _, err := read(path)
	return data, err
}
