/** Arrays in which bash stores the meaning of command names: program paths and aliases. */
const bash = 'BASH_CMDS|BASH_ALIASES'
const ofBash = new RegExp(`^(${bash})$`)
/**
 * Arrays in which zsh stores the meaning of command names. Scripts often use these names for variables of their own. So
 * setting the whole variable does not count, but setting an element counts.
 */
const ofZsh = /^(functions|g?aliases|saliases|commands)$/

/**
 * Whether setting the variable `name` changes which program a command name stands for, as `hash -p` does. `element` is
 * true if the command sets an element of the variable.
 */
export const changesNames = (name: string, element: boolean): boolean =>
  ofBash.test(name) || (element && ofZsh.test(name))

/** Whether an arithmetic expression changes which program a command name stands for: `(( BASH_CMDS[ls]=5 ))`. */
export const changesNamesIn = (expression: string): boolean => expressions.test(expression)
const expressions = new RegExp(`\\b(${bash})\\b`)
