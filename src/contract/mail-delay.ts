/** Seconds until a mail asks a person for a decision: the default, and the maximum that the person can choose. */
export const usualMailDelay = 600
export const longestMailDelay = 86_400
