package proc

// WithLandlock calls f as if the kernel had another version of Landlock than it has. Nobody else may use the package
// meanwhile.
func WithLandlock(abi int, f func()) {
	was := landlockABI
	defer func() { landlockABI = was }()
	landlockABI = func() (int, error) { return abi, nil }
	f()
}
