package chat

// page is how far pgup and pgdown go in a list.
const page = 10

// choose moves in a list of n, if that is what a key is for; at is -1 where nothing is chosen yet. Menus, lists to choose from,
// questions and the fields of forms have the same keys.
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

// chooseEnds is choose, also for the keys to both ends: where nothing is written that has ends of its own.
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
