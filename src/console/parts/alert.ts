import { h, type ComponentChild } from 'preact'
import { Message } from './words.ts'

/** Shows a message about the person's last action. */
export function Alert({ message }: { readonly message: string | null }): ComponentChild {
  return message === null ? null : h('p', { class: 'alert', role: 'alert' }, h(Message, { text: message }))
}
