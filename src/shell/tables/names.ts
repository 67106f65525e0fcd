/** Arrays in which bash stores the meaning of command names: program paths and aliases. */
const bash = 'BASH_CMDS|BASH_ALIASES'
const ofBash = new RegExp(`^(${bash})$`)
/**
 * Arrays in which zsh stores the meaning of command names. Scripts often use these names for variables of their own. So
 * only setting an element counts, and not setting the whole variable.
 */
const ofZsh = /^(functions|g?aliases|saliases|commands)$/

/** Whether setting a variable, or an element of it, changes what a command name runs, as `hash -p` does. */
export const changesNames = (name: string, element: boolean): boolean =>
  ofBash.test(name) || (element && ofZsh.test(name))

/** Whether an arithmetic expression changes what a command name runs: `(( BASH_CMDS[ls]=5 ))`. */
export const changesNamesIn = (expression: string): boolean => expressions.test(expression)
const expressions = new RegExp(`\\b(${bash})\\b`)
