export const units = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const

export const counted = (count: number, unit: string): string => `${count} ${unit}${count === 1 ? '' : 's'}`

/** Exactly: 5,400 seconds are `90 minutes`. */
export function exactTime(seconds: number): string {
  const [name, size] = units.find(([, size]) => seconds % size === 0) ?? ['second', 1]
  return counted(seconds / size, name)
}
