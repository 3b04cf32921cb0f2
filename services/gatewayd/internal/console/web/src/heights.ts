// The heights of the items of a list, added up so that neither an item's place nor the item at a place takes a walk
// over all.

export class Heights {
  private own: number[] = [];
  // sums[i], from 1, is the height of the items (i - (i & -i), i] (a Fenwick tree).
  private sums: number[] = [0];

  get length(): number {
    return this.own.length;
  }

  of(at: number): number {
    return this.own[at] ?? 0;
  }

  push(height: number): void {
    const i = this.own.push(height);
    let sum = height;
    for (let below = i - 1; below > i - (i & -i); below -= below & -below) sum += this.sums[below]!;
    this.sums.push(sum);
  }

  set(at: number, height: number): void {
    const more = height - this.of(at);
    this.own[at] = height;
    for (let i = at + 1; i < this.sums.length; i += i & -i) this.sums[i] = this.sums[i]! + more;
  }

  /** The height of all items before one. */
  before(at: number): number {
    let sum = 0;
    for (let i = at; i > 0; i -= i & -i) sum += this.sums[i]!;
    return sum;
  }

  /** The item at a height; the first if it is above all, the number of items if it is below all. */
  at(height: number): number {
    let i = 0;
    for (let step = 2 ** Math.floor(Math.log2(Math.max(1, this.own.length))); step >= 1; step /= 2) {
      const sum = this.sums[i + step];
      if (sum === undefined || sum > height) continue;
      i += step;
      height -= sum;
    }
    return i;
  }
}
