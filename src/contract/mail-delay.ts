/**
 * A mail asks a person for a decision after a delay, in seconds. `usualMailDelay` is the default. A person can choose
 * at most `longestMailDelay`.
 */
export const usualMailDelay = 600
export const longestMailDelay = 86_400
