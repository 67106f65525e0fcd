/** Seconds after which a mail asks for a decision, until a person chooses otherwise; and the most that they can choose. */
export const usualMailDelay = 600
export const longestMailDelay = 86_400
