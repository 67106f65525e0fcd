import { h, type ComponentChild } from 'preact'
import { Words } from './words.ts'

/**
 * Shows the name of the organization whose data a page shows. Without the word before it, people could read the name as
 * the product's name.
 */
export const OrganizationName = ({ name }: { readonly name: string }): ComponentChild => [
  'Organization: ',
  h(Words, { text: name }),
]
