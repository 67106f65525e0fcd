/** Arrays in which bash stores the meaning of command names: program paths and aliases. */
const bash = 'BASH_CMDS|BASH_ALIASES'
const ofBash = new RegExp(`^(${bash})$`)
/** zsh's arrays. Their names are common elsewhere, so only setting an element counts. */
const ofZsh = /^(functions|g?aliases|saliases|commands)$/

/** Whether setting a variable, or one of its elements, changes what names run, like `hash -p`. */
export const changesNames = (name: string, element: boolean): boolean =>
  ofBash.test(name) || (element && ofZsh.test(name))

/** Whether an arithmetic expression changes what names run: `(( BASH_CMDS[ls]=5 ))`. */
export const changesNamesIn = (expression: string): boolean => expressions.test(expression)
const expressions = new RegExp(`\\b(${bash})\\b`)
