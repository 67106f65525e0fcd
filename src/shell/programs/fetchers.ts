import { output } from '../marks.ts'
import type { Program, Shell } from '../types.ts'
import { has, readOptions, valueOf } from './options.ts'

/* Fetching is harmless, but the server reads the requested name: egress if it has the output of a command. */

const asks = (shell: Shell, name: string): void =>
  shell.note('egress', `\`${name}\` asks for a name that is made of what a command prints`)

/** Whether a registry that the name of the image chooses would get the output of a command. */
const ownRegistry = (image: string): boolean => {
  const host = /^(?:\w+:\/\/)?([^/]+)\//.exec(image)?.[1] ?? ''
  return image.includes(output) && (/[.:]/.test(host) || host.includes(output))
}

/** The words of `docker pull`, `skopeo inspect` and similar commands. */
export function readImages(name: string, words: readonly string[], shell: Shell): void {
  if (words.some(ownRegistry)) asks(shell, name)
}

const options = {
  anywhere: true,
  options:
    '-UqvIhi:f:r:c:e:t:d: index-url= extra-index-url= find-links= requirement= constraint= editable= target= dest= prefix= root= src= log= cache-dir= proxy= cert= python= platform= python-version= implementation= abi= only-binary= no-binary= report= config-settings= timeout= retries= trusted-host= index= registry= default-index= directory= project= color= config-file= allow-insecure-host=',
}

/** The server of a chosen package index sees the names of the requested packages. */
export const installer: Program = (args, shell, _, name) => {
  const read = readOptions(args, options)
  const index = valueOf(
    read,
    'i',
    'index-url',
    'extra-index-url',
    'f',
    'find-links',
    'index',
    'default-index',
  )
  if (index !== undefined && read.rest.some((word) => word.includes(output) && !/^[./~]/.test(word)))
    asks(shell, name)
  if (has(read, 'proxy') && valueOf(read, 'proxy')?.includes(output) === true) asks(shell, name)
}

/** The subcommands `pip`, `add` and `tool install` request packages as pip does. */
export const uvInstaller: Program = (args, shell, call, name) => {
  const [first, second] = readOptions(args, options).rest
  if (first === 'pip' || first === 'add' || (first === 'tool' && second === 'install'))
    installer(args, shell, call, name)
}

const elsewhere = /^(?:git::)?(?:\w+:\/\/|[\w.-]+\.\w+[/:]|[\w.-]+@)/

/** `terraform init` loads modules and state from addresses in the arguments. */
export function readSources(name: string, args: readonly string[], shell: Shell): void {
  for (const arg of args) {
    const value = /^--?(?:from-module|backend-config|source|terragrunt-source)=(?:\w+=)?(.*)$/s.exec(arg)?.[1]
    if (value !== undefined && value.includes(output) && (elsewhere.test(value) || value.startsWith(output)))
      asks(shell, name)
  }
}
