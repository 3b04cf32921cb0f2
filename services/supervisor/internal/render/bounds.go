package render

const (
	// maxKept is how many tool calls, questions and the like are remembered.
	maxKept = 1000
	// maxCode is how many bytes of one line of code, a diff or output are shown.
	maxCode = 4 << 10
	// maxText is how many bytes are shown of a text that is shown whole: a description, a question.
	maxText = 64 << 10
)
