package proc

// WithLandlock calls f as if the kernel had another version of Landlock. Other goroutines must not use the package
// meanwhile.
func WithLandlock(abi int, f func()) {
	was := landlockABI
	defer func() { landlockABI = was }()
	landlockABI = func() (int, error) { return abi, nil }
	f()
}
