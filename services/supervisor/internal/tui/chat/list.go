package chat

// page is the number of items that pgup and pgdown move in a list.
const page = 10

// choose moves the selection in a list of n items, and reports whether the key does that. at is -1 without a selection.
// Menus, pickers, questions and fields of forms use the same keys.
func choose(at *int, n int, name string) bool {
	if n == 0 {
		return false
	}
	switch name {
	case "up", "ctrl+p":
		*at = (max(*at, 0) + n - 1) % n
	case "down", "ctrl+n":
		*at = (*at + 1) % n
	case "pgup":
		*at = max(*at-page, 0)
	case "pgdown":
		*at = min(*at+page, n-1)
	default:
		return false
	}
	return true
}

// chooseEnds is choose with the keys for both ends, for lists without a text input.
func chooseEnds(at *int, n int, name string) bool {
	switch {
	case n > 0 && name == "home":
		*at = 0
	case n > 0 && name == "end":
		*at = n - 1
	default:
		return choose(at, n, name)
	}
	return true
}
