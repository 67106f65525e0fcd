/** Seconds until a mail asks a person for a decision. A person can choose at most `longestMailDelay`. */
export const usualMailDelay = 600
export const longestMailDelay = 86_400
