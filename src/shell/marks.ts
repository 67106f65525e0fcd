/* Unicode gives these no meaning. They stand for what a command hides; one in a command only makes it stricter. */

/** Stands for the value of a variable that the command does not set. */
export const unknown = '\uFFF0'
export const output = '\uFFF1'
/** Stands for the pattern `*`. The shell replaces this pattern with the names of matching files. */
export const star = '\uFFF2'
/** Stands for a pattern that matches one character: `?` or `[ab]`. */
export const one = '\uFFF3'

export const isDynamic = (word: string): boolean => word.includes(unknown) || word.includes(output)

export const isPlain = (word: string): boolean => !/[\uFFF0-\uFFF3]/.test(word)

export const isUnknown = (word: string): boolean => isDynamic(word) && withoutUnknowns(word).trim() === ''

export const withoutUnknowns = (word: string): string => word.replaceAll(/[\uFFF0\uFFF1]/g, '')

/** Converts marked text back to shell code. Unknown parts become a variable that is never set. */
export const asCode = (word: string): string =>
  word
    .replaceAll(/[\uFFF0\uFFF1]/g, '${_}')
    .replaceAll(star, '*')
    .replaceAll(one, '?')
