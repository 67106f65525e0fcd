/** Arrays in which bash keeps what a command's name stands for: a program's path, an alias. */
const bash = 'BASH_CMDS|BASH_ALIASES'
const ofBash = new RegExp(`^(${bash})$`)
/** zsh's, which are names like others to everybody else: only one element of them says enough. */
const ofZsh = /^(functions|g?aliases|saliases|commands)$/

/** Whether giving a value to a variable, or to an element of it, changes what names run, as `hash -p` does. */
export const changesNames = (name: string, element: boolean): boolean =>
  ofBash.test(name) || (element && ofZsh.test(name))

/** Whether arithmetic would: `(( BASH_CMDS[ls]=5 ))`. */
export const changesNamesIn = (expression: string): boolean => expressions.test(expression)
const expressions = new RegExp(`\\b(${bash})\\b`)
