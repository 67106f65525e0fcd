import type { Call, Program, Shell } from '../types.ts'
import { otherMachine } from './environment.ts'
import { readImages } from './fetchers.ts'
import { type OptionTable, readOptions, valueOf } from './options.ts'
import { starts, sendsByPath } from './paths.ts'

const valued =
  /^(-H|--host|-c|--context|--config|-l|--log-level|-f|--file|-p|--project-name|--profile|--env-file|--project-directory|-n|--namespace|--kubeconfig|--cluster|--user|-s|--server)$/

const inContainer: OptionTable = {
  options:
    '-ditPqTa:c:e:g:h:k:l:m:p:u:v:w:n:f:s: add-host= annotation= attach= blkio-weight= cap-add= cap-drop= cgroup-parent= cidfile= cpu-shares= cpus= cpuset-cpus= detach-keys= device= dns= entrypoint= env= env-file= expose= gpus= group-add= health-cmd= hostname= ip= ipc= isolation= label= label-file= link= log-driver= log-opt= mac-address= memory= memory-swap= mount= name= network= network-alias= net= oom-score-adj= pid= pids-limit= platform= publish= pull= restart= runtime= security-opt= shm-size= stop-signal= stop-timeout= storage-opt= sysctl= tmpfs= ulimit= user= userns= uts= volume= volume-driver= volumes-from= workdir= index= container= namespace= context= filename= pod-running-timeout= detach init interactive tty privileged publish-all read-only rm quiet no-healthcheck oom-kill-disable sig-proxy no-deps build service-ports use-aliases no-TTY stdin disable-content-trust',
}

const starting = /^(run|exec|create|up|start|attach)$/

const hostOf = (args: readonly string[], at: number): string =>
  /^(-H|--host)$/.test(args[at] ?? '') ? (args[at + 1] ?? '') : ''

/** What runs in a container counts as a script, or as egress if its words send data out. */
export const container: Program = (args, shell, call, name) => {
  if (sendsByPath(shell, name, args, valued)) return
  if (args.some((arg, at) => otherMachine(/^(?:-H|--host)(?:=?)(.*)$/s.exec(arg)?.[1] || hostOf(args, at))))
    shell.note('egress', `\`${name}\` works on another machine`)
  for (const at of starts(args, valued)) {
    let rest = args.slice(at)
    const compose = rest[0] === 'compose' || name === 'docker-compose'
    if (/^(container|compose|pod|sandbox)$/.test(rest[0] ?? ''))
      rest = rest.slice((starts(rest.slice(1), valued)[0] ?? 0) + 1)
    const verb = rest[0] ?? ''
    if (verb === 'run' || verb === 'exec') return inside(rest.slice(1), shell, call, name)
    if ((compose && starting.test(verb)) || /^(service|stack|swarm)$/.test(verb))
      return shell.note('script', `\`${name}\` starts containers`)
    if (/^(pull|image|manifest|search|buildx)$/.test(verb)) readImages(name, rest, shell)
    if (verb === 'debug' || verb === 'attach')
      return shell.note('script', `\`${name}\` runs something in a container`)
    if (
      /^(build|buildx|bake)$/.test(verb) &&
      rest.some((word) => /^--push(=true)?$|type=registry|push=true/.test(word))
    )
      return shell.note('egress', `\`${name}\` pushes what it builds`)
  }
}

/** In `args`, the command follows the name of the container or image. */
function inside(args: readonly string[], shell: Shell, call: Call, name: string): void {
  shell.note('script', `\`${name}\` runs something in a container`)
  const read = readOptions(args, inContainer)
  const words = read.rest.slice(1)
  const entry = valueOf(read, 'entrypoint')
  const given = words[0] === '--' ? words.slice(1) : words
  const command = entry === undefined || entry === '' ? given : [entry, ...given]
  shell.suspects('what runs in the container sends data out', () => shell.run(command, call))
}

export const cluster: Program = (args, shell, call, name) => {
  if (sendsByPath(shell, name, args, valued)) return
  const server = readOptions(args, { options: '-s: server=', anywhere: true })
  if (otherMachine(valueOf(server, 's', 'server') ?? ''))
    shell.note('egress', `\`${name}\` works on another machine`)
  for (const at of starts(args, valued)) {
    const [verb = '', ...rest] = args.slice(at)
    if (!/^(exec|run|attach|debug|rsh|proxy|krew|plugin)$/.test(verb)) continue
    const end = rest.indexOf('--')
    if (end >= 0) inside(['pod', ...rest.slice(end + 1)], shell, call, name)
    else if (verb === 'exec') inside(rest, shell, call, name)
    shell.note('script', `\`${name}\` runs something in a container`)
  }
}
