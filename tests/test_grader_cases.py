"""Verdicts on pairs of gold and answer, worked by thought; the shared hand-made cases and golds, where they are."""

import json
import os
import random
import re
from pathlib import Path

import pytest

from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.types import Verdict

DATA = Path(os.environ.get("EDGE_DATA") or Path(__file__).parents[2] / "shared" / "data")

SAME = r"""
42 ¦ \mathbf{42}
42 ¦ {\bf 42}
42 ¦ \boldsymbol{42}
42 ¦ \color{red}{42}
42 ¦ \textcolor{blue}{42}
42 ¦ \large 42
42 ¦ 42\,.
42 ¦ \quad 42 \quad
42 ¦ \underline{42}
42 ¦ { {42} }
42 ¦ ４２
-7 ¦ −7
-7 ¦ - 7
0 ¦ 0.0
007 ¦ 7
142.0 ¦ 142
5. ¦ 5
1234567 ¦ 1~234~567
1234567 ¦ 1\ 234\ 567
12345.6 ¦ 12,345.6
1234 ¦ 1{,}234
10,\!080 ¦ 10080
-1,234 ¦ -1234
x=1,234 ¦ 1234
\frac{3}{4} ¦ \tfrac34
\frac{3}{4} ¦ 3/4
\frac{3}{4} ¦ ¾
\frac{3}{4} ¦ \cfrac{3}{4}
\frac{3}{4} ¦ {3 \over 4}
-\frac{3}{4} ¦ \frac{-3}{4}
-\frac{3}{4} ¦ -0.750
\frac{1}{3} ¦ \frac{2}{6}
\frac{a}{b} ¦ a/b
1\frac{4}{5} ¦ \frac{9}{5}
\frac{9}{5} ¦ 1 4/5
-1\frac{1}{2} ¦ -1.5
9 ¦ 9 cm
9 ¦ 9\ \mathrm{cm}^2
9 ¦ 9 \text{ square inches}
9 \text{ ft} ¦ 9 \text{ feet}
9 ¦ 9 \text{ m/s}
9 ¦ 9 \text{ miles per hour}
9 ¦ 9 \text{ apples}
9 ¦ 9\text{ ways}
864 \mbox{ inches}^2 ¦ 864 \text{ in}^2
60^\circ ¦ 60
60^\circ ¦ 60\text{ degrees}
60 ¦ 60°
4^{\circ} ¦ 4^\circ
20^\circ C ¦ 20^\circ
\$36 ¦ 36 \text{ dollars}
$0.10 ¦ 0.1
18.9 ¦ \$18.90
0.003^{\prime \prime} ¦ 0.003
4.4677 \times 10^{14} Hz ¦ 4.4677 \times 10^{14}
15000 \text{ kcal m}^{-2} \text{yr}^{-1} ¦ 15000
30\% ¦ 30 \text{ percent}
30\% ¦ 30%
30\% ¦ 30
30\% ¦ 0.3
30\% ¦ \frac{3}{10}
30 ¦ 30\%
17.5% ¦ 17.50 \%
4.5e33 ¦ 4.5 \cdot 10^{33}
1e-5 ¦ 0.00001
1e-5 ¦ 10^{-5}
6.72E-5 ¦ 6.72\times10^{-5}
3 \times 10^{8} ¦ 3×10⁸
7 ¦ 2^3 - 1
24 ¦ 4!
2^{100} ¦ 4^{50}
\sqrt{12} ¦ 2\sqrt3
\sqrt{12} ¦ 2√3
\frac{\sqrt{2}}{2} ¦ \frac{1}{\sqrt{2}}
\sqrt[3]{2} ¦ 2^{1/3}
\sqrt{5+2\sqrt{6}} ¦ \sqrt{2}+\sqrt{3}
18+2\pi ¦ 2(\pi+9)
\pi ¦ π
\ln 8 ¦ 3\ln 2
e^{-2t} ¦ \frac{1}{e^{2t}}
(1+i)^2 ¦ 2i
\cos(2t) ¦ 1-2\sin^2 t
\binom{n}{2} ¦ \frac{n(n-1)}{2}
\frac{d !}{2 k(d-k) !} ¦ \frac{d!}{2k(d-k)!}
x^2-1 ¦ (x-1)(x+1)
2n-2 ¦ 2(n-1)
m^{2}+2m ¦ m(m+2)
\lceil n / 2\rceil+1 ¦ \left\lceil \frac{n}{2} \right\rceil + 1
\lfloor\sqrt{n-1}\rfloor ¦ \left\lfloor \sqrt{n - 1} \right\rfloor
\frac{1}{2}n+2 ¦ \frac{n+4}{2}
a_n ¦ a_{n}
x_1+x_2 ¦ x_2+x_1
\gamma^2-1 ¦ (\gamma-1)(\gamma+1)
I(0)e^{-\frac{t}{RC}} ¦ I(0) e^{-t/(R C)}
5 ¦ x=5
5 ¦ x = y = 5
x=5 ¦ 5.0
k=n+1 ¦ n+1
f(x)=2x ¦ f(t)=2t
f(x)=x+1 ¦ x+1
\angle ABC = 90 ¦ 90^\circ
y=2x+3 ¦ 2x - y = -3
y = \frac{1}{x} ¦ xy = 1
x^2-6x-7=0 ¦ 2x^2-12x-14=0
5x - 7y + 11z + 4 = 0 ¦ -5x+7y-11z-4=0
A = \frac{1}{2}bh ¦ A = \frac{bh}{2}
n \ge 14 ¦ n \geqslant 14
n \ge 14 ¦ 2n \ge 28
[1,\infty) ¦ x \ge 1
(0,1) ¦ 0 < x < 1
(0,1] ¦ 1 \ge x > 0
-1 < x \le 2 ¦ (-1, 2]
x > 3 ¦ (3, \infty)
x \in [-2,7] ¦ -2 \le x \le 7
[0,1] ¦ [0, 1.0]
(0,1) ¦ ]0,1[
(-\infty, 0) \cup\{1\} ¦ \{1\} \cup (-\infty, 0)
n \neq 5 ¦ n \not= 5
(2,4) ¦ \left(2, \frac{8}{2}\right)
(2,4) ¦ (x,y) = (2,4)
(m, n) = (36, 6) ¦ m=36, n=6
(m, n) = (36, 6) ¦ (36, 6)
m = 9,n = 6 ¦ (9, 6)
m = 9,n = 6 ¦ n=6 \text{ and } m=9
(1,2),(3,4) ¦ (3,4),(1,2)
(1,2),(3,4) ¦ \{(1,2),(3,4)\}
\langle 1, 2 \rangle ¦ (1, 2)
1,-2 ¦ x=1, x=-2
1,-2 ¦ x = -2 \text{ or } x = 1
1,-2 ¦ \{-2, 1\}
3,4 ¦ 3; 4
\pm 3 ¦ 3, -3
3 \pm 2 \sqrt{2} ¦ 3 + 2\sqrt{2}, 3 - 2\sqrt{2}
n \in \{69, 84\} ¦ 84, 69
\{1,2\} ¦ \{1,1,2\}
$69$,$84$ ¦ 69 and 84
60^\circ, 60^\circ ¦ 60, 60
0, 2, 4, \ldots, 1022 ¦ 0,2,4,\dots,1022
\begin{pmatrix} 1 \\ 2 \end{pmatrix} ¦ \begin{bmatrix} 1 \\ 2 \end{bmatrix}
\begin{pmatrix} 1/3 \\ 2/3 \end{pmatrix} ¦ \frac{1}{3}\begin{pmatrix} 1 \\ 2 \end{pmatrix}
\begin{cases} x=1 \\ y=2 \end{cases} ¦ x=1, y=2
2:3 ¦ 4:6
\text{Navin} ¦ navin
\text{east} ¦ \mathrm{East}
\text{even} ¦ even
\text{ellipse} ¦ \text{an ellipse}
\text{no solution} ¦ no solution
\text{(B)} ¦ B
\text{(B)} ¦ \textbf{(B)}\ 12
12 ¦ \textbf{(B)}\ 12
12 ¦ \text{(B) 12}
\text{(E)} ¦ \text{e}
4210_{5} ¦ 4210_5
3 \mid a_0 ¦ 3 | a_0
m \equiv 2 \pmod{12} ¦ m\equiv 2\pmod {12}
f(x) = 0 \text{ and } f(x) = x ¦ f(x)=x, f(x)=0
f(x) = 0f(x) = x ¦ f(x)=0, f(x)=x
{a_n = 2^{n-1}} ¦ a_n=2^{n-1}
$\quad(2+\sqrt{2}, 1+\sqrt{2})$ ¦ (2+\sqrt2,1+\sqrt2)
$8 \%$ ¦ 8\%
$(-\infty, 0) \cup\{1\}$. ¦ (-\infty,0)\cup\{1\}
\boxed{6097392} ¦ 6{,}097{,}392
MR=SRMC ¦ SRMC=MR
E_1, E_2 ¦ E_2, E_1
X_{d}=125-1.25 P ¦ 125-1.25P
x' + \frac{r}{V}x - rc = 0 ¦ x'+\frac{rx}{V}-rc=0
m ¦ m
7 ¦ =7
7 ¦ 7\\
7 ¦ "7"
7 ¦ 49^{1/2}
7 ¦ \lfloor 7.5 \rfloor
7 ¦ 3+4=7
2^{n-1} ¦ \frac{2^n}{2}
1 - \frac{1}{e} ¦ 1-e^{-1}
2^{n(n-1)/2} ¦ \sqrt{2^{n(n-1)}}
\frac{8}{\sqrt[3]{7}} ¦ \frac{8 \sqrt[3]{49}}{7}
\frac{8}{\sqrt[3]{7}} ¦ 8 \cdot 7^{-1/3}
\frac{11+9a}{20} ¦ 0.55+0.45a
\frac{1}{2n+2} ¦ 1/(2n+2)
(3,4] ¦ 3 < x \le 4
(-\infty,0] ¦ x \le 0
(0,9) \cup (9,36) ¦ (0,36) \setminus \{9\}
\mathbb{R} \setminus \{0\} ¦ (-\infty,0)\cup(0,\infty)
\mathbb{R} ¦ (-\infty,\infty)
\begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix} ¦ \left(\begin{array}{cc}-1&0\\0&-1\end{array}\right)
\begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix} ¦ -\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}
\begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix} ¦ \left[\begin{matrix}-1&0\\0&-1\end{matrix}\right]
6-5i ¦ -5i+6
-2-\sqrt3 ¦ -(2+\sqrt{3})
\binom{2n}{n} ¦ {2n \choose n}
y=2x+3 ¦ 2x+3
x^2-6x-7=0 ¦ (x-7)(x+1)=0
x^2-6x-7=0 ¦ x^2-6x=7
\frac{a M^{1/3}}{G M^{2/3}+b} ¦ \frac{aM^{\frac13}}{b+GM^{\frac23}}
\frac{1}{b-a}(e^{-at}-e^{-bt}) ¦ \frac{e^{-at}-e^{-bt}}{b-a}
\arcsin(1.3\sin\theta_w) ¦ \arcsin(1.3\sin(\theta_w))
\arcsin{\frac{1}{1.3}} ¦ \sin^{-1}\left(\frac{10}{13}\right)
x_{0} \cos (\omega t)+\frac{\dot{x}_{0}}{\omega} \sin (\omega t) ¦ \frac{\dot{x}_0}{\omega}\sin\omega t + x_0\cos\omega t
2 \cos (\pi t+\pi / 3) ¦ 2\cos\left(\pi t + \frac{\pi}{3}\right)
(1 - 3e^{-2t} + 2e^{-5t}) u(t) ¦ u(t)(2e^{-5t}-3e^{-2t}+1)
m \frac{d v}{d t}+b v=f ¦ m\frac{dv}{dt}+bv=f
I \frac{d \omega}{d t}+2 B \omega=T ¦ I\frac{d\omega}{dt} = T - 2B\omega
\frac{d^{2} v_{o}}{d t^{2}}+\frac{v_{o}}{L C}=\frac{v_{i}}{L C} ¦ \frac{d^2v_o}{dt^2} + \frac{v_o}{LC} = \frac{v_i}{LC}
\hbar \omega(v+1 / 2)-\frac{E_{0}^{2} e^{2}}{2 m \omega^{2}} ¦ \hbar\omega(v+\frac12)-\frac{e^2E_0^2}{2m\omega^2}
m_{p} c^{2}(\gamma^{2}-1) \sin ^{2} \theta ¦ m_pc^2(\gamma^2-1)\sin^2\theta
-\tau \ln \Delta ¦ \tau\ln\frac{1}{\Delta}
\ln 2 + i\frac{\pi}{3} ¦ \ln 2+\frac{\pi i}{3}
\frac{4A}{3+3i}e^{it} ¦ \frac{4Ae^{it}}{3(1+i)}
100p^{\frac{1}{2}} ¦ 100\sqrt{p}
-\frac{1}{2}X^{-\frac{1}{2}} ¦ -\frac{1}{2\sqrt{X}}
m n-\lfloor m / 2\rfloor ¦ mn - \left\lfloor\frac{m}{2}\right\rfloor
\left\lfloor\log _{2} n\right\rfloor+1 ¦ \lfloor \log_2 n\rfloor + 1
m_{\max }=n^{2}-n-1 ¦ n^2-n-1
\frac{d !}{2 k(d-k) !} ¦ \frac{d!}{2k\cdot(d-k)!}
$f(x)=x$,$f(x)=2-x$ ¦ f(x)=2-x \text{ or } f(x)=x
$f(x)=x$,$f(x)=2-x$ ¦ x, 2-x
$a=2$, $a=-6-4 \sqrt{2}$ ¦ 2, -6-4\sqrt2
x=\frac{1}{6} \pi+\pi k, \frac{1}{3} \pi+\pi k ¦ \frac{\pi}{6}+k\pi, \frac{\pi}{3}+k\pi
$10^{3},10$ ¦ 1000, 10
(10^{4}, 10^{3}, 10^{10}) ¦ (10000,1000,10^{10})
2,-\log _{10} 250 ¦ -\log_{10}250, 2
(4, \log _{10} 2) ¦ (4,\log_{10}2)
\frac{\log 2}{\log 2-\log 3} ¦ \frac{\ln 2}{\ln 2-\ln 3}
2021 \cdot 505 \cdot 337 ¦ 343943885
10,11,12,13,14,-2,-1,0,1,2 ¦ -2,-1,0,1,2,10,11,12,13,14
1991^2 ¦ 3964081
P(x) = x + 1 ¦ x+1
f(x)=1-\dfrac{x^2}{2} ¦ 1-\frac{1}{2}x^2
2\omega(m) + 1 ¦ 1+2\omega(m)
(a, n) = (a, 1) ¦ (a,1)
2(x + 4)(x - 4)(x - 8) ¦ 2(x^2-16)(x-8)
(n + 1)! - (n - 1)! ¦ (n-1)!(n^2+n-1)
2(p!)^2 ¦ 2 \cdot p! \cdot p!
7 ¦ 7 \quad
7 ¦ \mathbf{7} \text{ units}
8 ¦ 8 cm
12 ¦ 12\,\text{m}^2
5 ¦ \text{Answer: } 5
10 ¦ 10 \text{ pm}
8 ¦ \frac{16}{2} \text{ cm}
\emptyset ¦ \varnothing
\emptyset ¦ \{\}
\sin 30^\circ ¦ \frac12
x^{2}y ¦ x^2 \cdot y
a/bc ¦ \frac{a}{bc}
|x-1| ¦ |1-x|
\frac{1}{x}+\frac{1}{y} ¦ \frac{x+y}{xy}
0.\overline{3} ¦ \frac13
0.1\overline{6} ¦ \frac{1}{6}
7 ¦ 7\,\mathrm{kg \cdot m^2/s^2}
7 ¦ 7\,\mathrm{kg}\cdot\mathrm{m}/\mathrm{s}^2
7 ¦ 7\ \text{N}\cdot\text{m}
7 ¦ 7\,\frac{\text{m}}{\text{s}}
7 ¦ 7\,\mathrm{J/(kg\,K)}
7 ¦ 7\ \mathrm{k\Omega}
7 ¦ 7\text{ μm}
7 ¦ 7\ \text{\AA}
7 ¦ 7\,\rm{m}
7 ¦ \text{7 km/h}
7 ¦ 7 min
7 ¦ 7\text{ red apples}
7 ¦ 7\text{ times}
1 ¦ 1\text{ way}
\frac{3}{4} ¦ \frac{3}{4}\text{ of the pie}
1.6 \times 10^{3} ¦ 1.6 \times 10^{3}\ \mathrm{g\,cm^{-3}}
9\text{ m/s} ¦ 9\text{ meters per second}
9\text{ mph} ¦ 9\text{ miles per hour}
9\text{ apples} ¦ 9\text{ red apples}
9\text{ square units} ¦ 9\text{ units}^2
3:30\text{ pm} ¦ \text{3:30 p.m.}
2e^3 ¦ 2\mathrm{e^3}
5 ¦ 5\,\mathrm{MeV/c^2}
x\in(1,2) ¦ x>1\text{ and }x<2
2i ¦ 2\mathrm{i}
2e^{x} ¦ 2\mathrm{e}^{x}
3+4i ¦ 3 + 4\,\mathrm{i}
2nm ¦ 2mn
2mg\sin\theta ¦ 2 m g \sin \theta
\frac{mg}{2} ¦ \frac{1}{2}mg
24abcd ¦ 24 d c b a
A, B ¦ \text{B}, \text{A}
B ¦ 12, \text{B}
B ¦ 12 \textbf{(B)}
\sqrt{13} ¦ √13
\sqrt{x+1} ¦ √(x+1)
5\sqrt{10} ¦ 5√10
\sqrt[3]{2} ¦ ∛2
-2 ¦ \sqrt[3]{-8}
-\sqrt[3]{5} ¦ \sqrt[3]{-5}
\frac{h(a+b)}{2} ¦ \frac{1}{2}(b+a)h
P(1+r)^n ¦ P(r+1)^n
\frac{G(M+m)}{r^2} ¦ \frac{GM+Gm}{r^2}
\max\{a,b\} ¦ \max(b,a)
|x-5|+|5-x| ¦ 2|x-5|
\max(x,5) ¦ \frac{x+5+|x-5|}{2}
\lceil n/2\rceil ¦ \lfloor (n+1)/2\rfloor
n ¦ \lfloor n \rfloor
\lfloor \log_2 n \rfloor + 1 ¦ \lceil \log_2(n+1) \rceil
2^{200}\sqrt{2}-1 ¦ \sqrt{2}\cdot 4^{100} - 1
\pi ¦ \pi \approx 3.14
\sqrt{2} ¦ AB = \sqrt{2} \approx 1.41
\frac{1}{3} ¦ x = \frac13 \approx 0.333
3.14 ¦ x \approx 3.14
5 ¦ 5 = x
12 ¦ \text{Answer} = 12
(2,-7) ¦ P(2,-7)
P(2,-7) ¦ (2,-7)
101_2 ¦ (101)_2
101_2 ¦ 101_{\text{two}}
x \equiv 3 \pmod{7} ¦ x \equiv 3 \mod 7
x \equiv 3 \pmod{7} ¦ x \equiv 10 \pmod 7
(-\infty,-1]\cup[4,\infty) ¦ x \ge 4 \text{ or } x \le -1
(-\infty,0)\cup(1,\infty) ¦ x<0,\ x>1
(-\infty,0)\cup(1,\infty) ¦ (1,\infty) \text{ or } (-\infty,0)
x<0 \text{ or } x>1 ¦ (-\infty,0)\cup(1,\infty)
(0,1) ¦ x>0, x<1
0<x<1 ¦ x<1 \text{ and } x>0
-1<a<1 ¦ |a|<1
|x| \ge 2 ¦ x \le -2 \text{ or } x \ge 2
\{x \mid x > 3\} ¦ (3,\infty)
\{x \mid x > 3\} ¦ \{x : x > 3\}
(3,\infty) ¦ \{x \in \mathbb{R} : x > 3\}
\mathbb{R} ¦ \Bbb R
\begin{pmatrix}1&2\\3&4\end{pmatrix} ¦ \begin{pmatrix}1&2\\[2pt]3&4\end{pmatrix}
\text{Alice and Bob} ¦ \text{Bob and Alice}
0.\dot{3} ¦ \frac13
"""

DIFFERENT = r"""
42 ¦ 4 2
42 ¦ 4\,2
42 ¦ 42x
42 ¦ 42, 43
42 ¦ 42 \text{ or } 43
42 ¦ 42 \text{ if } x>0
42 ¦ \{42, 42.5\}
42 ¦ \text{not } 42
42 ¦ \text{about } 42
42 ¦ -42
42 ¦ 42!
42 ¦ 42^2
42 ¦ 42_8
42 ¦ \sqrt{42}
42 ¦ |x|=42 \text{ or } 41
42 ¦ \pm 42
42 ¦ 42\ldots
42 ¦ \approx
42 ¦ x > 42
42 ¦ x \ne 42
42 ¦ [42, \infty)
42 ¦ ²
6 ¦ 1 2 3
6 ¦ 1,2,3
2^3 ¦ 2_3
1234 ¦ 1,2,3,4
1234 ¦ 12,34
1234567 ¦ 1 234 5678
0.333 ¦ \frac{1}{3}
\frac{1}{3} ¦ 0.333333
\frac{1}{3} ¦ 0.3333333333333333
2\pi ¦ 6.283185307
\sqrt{2} ¦ 1.41421356
\frac{1}{3} ¦ 3
1\frac{1}{2} ¦ \frac{1}{2}
1\frac{1}{2} ¦ 11/2
9 \text{ inches} ¦ 9 \text{ cm}
9 \text{ cm} ¦ 9 \text{ cm}^2
\$5 ¦ 5 \text{ cents}
9 ¦ 9 m
90^\circ ¦ 90 \text{ radians}
20^\circ C ¦ 20^\circ F
30\% ¦ 3\%
30\% ¦ 3
0.3 ¦ 30
30 ¦ 0.3
30\% ¦ 0.03
3e8 ¦ 3e7
3e8 ¦ 3e
1e-10 ¦ 0
10^{-30} ¦ 2 \cdot 10^{-30}
10^{-30}\sqrt{2} ¦ 10^{-31}\sqrt{2}
\frac{\pi}{2^{99}} ¦ \frac{\pi}{2^{98}}
10^{20} ¦ 10^{20}+1
e^{\pi\sqrt{163}} ¦ 262537412640768744
\frac{22}{7} ¦ \pi
\sqrt{x^2} ¦ x
\frac{1}{2n+2} ¦ \frac{1}{2n}+2
\frac{N}{2} ¦ \frac{n}{2}
24n ¦ 24N
x_1 ¦ x_2
f(2x) ¦ 2f(x)
f(x)+1 ¦ fx+1
\frac{dM}{dt} ¦ \frac{M}{t}
\ln 2 ¦ \log 2
x^{10} ¦ x^{1}0
\sin^2 x ¦ \sin x^2
\binom{n}{2} ¦ \frac{n}{2}
\frac{n}{2} ¦ \lfloor \frac{n}{2} \rfloor
2^{n-1} ¦ 2^n-1
\gamma ¦ 0.5772156649
E ¦ e
x=5 ¦ y=5
x=5 ¦ x=-5
f(x)=2x ¦ g(x)=2x
f(x)=2x ¦ f(x)=2
5 ¦ 5=x+1
x+y=5 ¦ 5
a = 2, b = -14 ¦ -14, 2
a = 2, b = -14 ¦ b=2, a=-14
(m, n) = (36, 6) ¦ (n, m) = (36, 6)
(m, n) = (36, 6) ¦ (6, 36)
r^2+r+1=0 ¦ r^2-r+1=0
x^2+1=0 ¦ x^2+2=0
y=2x+3 ¦ y=2x-3
y=2x+3 ¦ y>2x+3
x^2=4 ¦ x=2
n \ge 14 ¦ n > 14
n \ge 14 ¦ m \ge 14
n \ge 14 ¦ -n \ge -14
n \ge 14 ¦ 14
0 < x < 1 ¦ 0 < x \le 1
[0,1] ¦ (0,1)
[0,1] ¦ 0 < x < 1
(0,1) ¦ [0,1[
(-\infty,2) \cup (3,\infty) ¦ (-\infty,2), (3,4)
(-\infty,2) \cup (3,\infty) ¦ (-\infty,2)
(2,4) ¦ (4,2)
(2,4) ¦ 4,2
(2,4) ¦ (2,4,4)
(2,4) ¦ \{2,4\}
(2,4) ¦ 2
(2,4) ¦ (2,4),(4,2)
\{2,4\} ¦ (2,4)
(1,2),(3,4) ¦ (1,2,3,4)
(1,2),(3,4) ¦ (1,3),(2,4)
1,2,2 ¦ 1,2
1,2,2 ¦ 1,1,2
1,2 ¦ 1,2,3
1,2 ¦ 12
1,-2 ¦ 1,2
\pm 3 ¦ 3
3 ¦ \pm 3
1 \pm \sqrt{2} ¦ 1+\sqrt{2}
0, 2, 4, \ldots, 1022 ¦ 0, 2, 4, \ldots
0, 2, 4, \ldots, 1022 ¦ 0, 2, 4, 1022
\{1, 2, \ldots, 9\} ¦ \{1, 2, 9\}
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} ¦ \begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}
\begin{pmatrix} 1 \\ 2 \end{pmatrix} ¦ (1, 2)
\begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix} ¦ \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}
2:3 ¦ 3:2
12:30 ¦ 6:15
1:36 ¦ 2:72
12:00 ¦ 12
2:3 ¦ 2
\text{Navin} ¦ \text{Navi}
\text{listen} ¦ silent
listen ¦ silent
\text{no} ¦ on
\text{yes} ¦ \text{no}
\text{even} ¦ \text{not even}
\text{Monday} ¦ \text{Monday or Tuesday}
\text{(B)} ¦ \text{(C)}
\text{(B)} ¦ \textbf{(C)}\ 12
12 ¦ \textbf{(B)}\ 13
12 ¦ \text{B}
4210_{5} ¦ 4210_6
4210_{5} ¦ 555
3 \mid n ¦ 3 \nmid n
3 \mid n ¦ n \mid 3
m \equiv 2 \pmod{12} ¦ m \equiv 2 \pmod{6}
\text{no solution} ¦ 0
7 ¦ \text{7 is wrong, 8}
7 ¦ \text{seven or eight}
7 ¦ 7 \text{ or more}
7 ¦ 7\%8
7 ¦ 7/0
7 ¦ \frac{7}{
7 ¦ 7}
7 ¦ __import__('os')
7 ¦ lambda: 7
E_1, E_2 ¦ E_1
7 ¦ 7?
7 ¦ 6.9999999999
7 ¦ 0x7
4(36 + \sqrt{113}) ¦ 4 \cdot 36 + \sqrt{113}
\frac{1}{2n+2} ¦ 1/2n+2
(0,9) \cup (9,36) ¦ (0,36)
\begin{pmatrix} 1 & 2 \end{pmatrix} ¦ \begin{pmatrix} 1 , 2 \end{pmatrix}
6-5i ¦ 6+5i
\sqrt{4 \pi G \rho_{0} r_{0}^{2}} ¦ 2 r_0\sqrt{\pi G \rho_0}
m \frac{d v}{d t}+b v=f ¦ m\dot{v}+bv=f
f(x)=x ¦ f(x) = x \text{ for all } x
2021 \cdot 505 \cdot 337 ¦ 343941485
n \geq 2^k + 1 ¦ n > 2^k
7 ¦ 7\text{ integers}
30 \% ¦ 30 per cent
\frac{\pi}{3} ¦ 60^\circ
0 ¦ \emptyset
1,234 ¦ 1,235
3,14 ¦ 3.14
x^{2y} ¦ x^2y
\frac{x}{y}z ¦ \frac{x}{yz}
|x-1| ¦ x-1
\sqrt{x^2+1} ¦ x+1
-x^2 ¦ (-x)^2
n! ¦ n
n!! ¦ n!
\overline{AB} ¦ AB
\vec{v} ¦ v
0.\overline{3} ¦ 0.3
\text{(C)} ¦ \textbf{(A)}\ \textbf{(B)}\ \textbf{(C)}\ \textbf{(D)}\ \textbf{(E)}
\text{(E)} ¦ \textbf{(A)}\ \textbf{(B)}\ \textbf{(C)}\ \textbf{(D)}\ \textbf{(E)}
B ¦ \textbf{(A)}\ \textbf{(B)}
B ¦ \text{A B}
B ¦ \text{A}, \text{B}
A ¦ \text{A}, \text{B}, \text{C}
B ¦ C, \text{B}
A ¦ A, \text{(B)}
B ¦ \text{C} \Rightarrow \text{B}
A, B ¦ A
A ¦ (A) 3 (B) 4
B ¦ \text{A. }3 \quad \text{B. }4
2 ¦ 2\mathrm{i}
2 ¦ 2\mathrm{e}^3
7 ¦ 3+4\mathrm{i}
2 ¦ 2\text{x}
2 ¦ 2nm
2 ¦ 24abcd
24 ¦ 24abcd
2nm ¦ 2
\frac{1}{2} ¦ \frac{1}{2} mg
8 ¦ 8\text{ hundredths}
8 ¦ 8\text{ thirds}
8 ¦ 8\text{ thousands}
8 ¦ 8\text{ dozen eggs}
8 ¦ 8\text{ lakh}
8 ¦ 8\text{th}
8 ¦ 8 tenths
8 ¦ 8\text{ divided by two}
8 ¦ 8\text{ times ten}
8 ¦ 8\text{ fewer}
8 ¦ 8\text{ onwards}
8 ¦ 8\text{ rejected}
8 ¦ 8\text{ impossible}
8 ¦ 8\text{ fails}
0.3 ¦ 0.3\text{ repeating}
9\text{ apples} ¦ 9\text{ pears}
9 \text{ N}\cdot\text{m} ¦ 9\text{ N/m}
15\text{ kcal m}^{-2} ¦ 15\text{ kcal m}^{-1}
100^\circ ¦ 100^\circ\text{C}
3:30\text{ a.m.} ¦ 3:30\text{ p.m.}
10:00 AM ¦ 10:00 PM
\$5\text{ loss} ¦ \$5\text{ profit}
2 ¦ √12
3 ¦ √13
0 ¦ 5√10
(3,4] ¦ 3,4
[3,4] ¦ 3,4
(0,\infty) ¦ 0,\infty
x<0 \text{ or } x>1 ¦ x<0 \text{ and } x>1
(1,2) ¦ x>1 \text{ or } x<2
(1,2),(3,4) ¦ (1,2)\cup(3,4)
x>1 ¦ y>1
1<x<2 ¦ y>1, y<2
x\in(1,2) ¦ y>1\text{ and }y<2
2 ¦ 2\mathrm{e^3}
5 ¦ 5\text{ hours }30\text{ minutes}
5 ¦ 5\text{ million people}
|x|<2 ¦ x<2
\{n \mid n \text{ is even}\} ¦ 2
\lfloor\log_2 n\rfloor+1 ¦ \lceil\log_2 n\rceil
\lfloor(2n-1)/5\rfloor ¦ \lfloor 2n/5\rfloor
\lfloor n/5\rfloor ¦ \lfloor (n-2)/5\rfloor
\lfloor n/100\rfloor ¦ 0
\lfloor x\rfloor ¦ x
\lfloor 2x\rfloor ¦ 2\lfloor x\rfloor
x-\lfloor x\rfloor ¦ 0
|x-5| ¦ 5-x
|x-100| ¦ 100-x
\sqrt{(x-4)^2} ¦ 4-x
|x+4| ¦ x+4
|x-4|+|x+4| ¦ 8
\max(x,5) ¦ 5
\ln|x| ¦ \ln x
2^{200}\sqrt{2}-1 ¦ 2^{200}\sqrt{2}
2^{150}+\sqrt{2} ¦ 2^{150}+\sqrt{3}
e^{100}-1 ¦ e^{100}
\frac{(1+\sqrt{2})^{200}-1}{2} ¦ \frac{(1+\sqrt{2})^{200}}{2}
\pi ¦ 3.1415926535897932384626433832795028841971693993751058209
f(x+1) ¦ f(x)+f(1)
f(x+1) ¦ fx+f
10 ¦ C(5,2)
x \equiv 3 \pmod{7} ¦ x \equiv 3 \pmod{14}
x \equiv 3 \pmod{7} ¦ x \equiv 4 \pmod{7}
101_2 ¦ 101_{\text{three}}
xy=6 ¦ 6
\pi ¦ 3.14 \approx \pi
5 ¦ 5 = x+1
\text{Alice and Bob} ¦ \text{Alice or Bob}
"""


def table(text: str) -> list[tuple[str, str]]:
    return [tuple(line.split(" ¦ ")) for line in text.strip().split("\n")]


def needs(name: str) -> Path:
    if not (DATA / name).exists():
        pytest.skip(f"{DATA / name} is absent; set EDGE_DATA to the folder that has it")
    return DATA / name


@pytest.fixture(scope="module")
def accuracy():
    built = BoxedAccuracy(timeout_s=60.0, workers=1)  # verdicts are what is tested, not the load of the machine
    yield built
    built.close()


@pytest.fixture(scope="module")
def verdicts(accuracy):
    pairs = table(SAME) + table(DIFFERENT)
    return dict(zip(pairs, accuracy.equivalence([([gold], answer) for gold, answer in pairs]), strict=True))


@pytest.mark.parametrize(("gold", "answer"), table(SAME))
def test_the_same_answer_in_other_words_is_right(verdicts, gold, answer):
    assert verdicts[gold, answer] is Verdict.MATCHED


@pytest.mark.parametrize(("gold", "answer"), table(DIFFERENT))
def test_another_answer_is_wrong(verdicts, gold, answer):
    assert verdicts[gold, answer] is Verdict.DIFFERS


def test_the_shared_cases_have_no_wrong_verdict(accuracy):
    lines = needs("grader_cases.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [json.loads(line) for line in lines if line.strip()]
    golds = [case["gold"] if isinstance(case["gold"], list) else [case["gold"]] for case in cases]
    found = accuracy.judge([(gold, case["response"]) for gold, case in zip(golds, cases)])
    wrong = [
        (case["id"], case["gold"], case["note"])
        for case, verdict in zip(cases, found)
        if (verdict is Verdict.MATCHED) != case["expected"]
    ]
    assert len(cases) >= 200
    assert wrong == []


def benchmarks() -> dict[str, list[list[str]]]:
    """The golds of each benchmark as text."""
    from datasets import load_from_disk

    def written(value) -> str:
        return value if isinstance(value, str) else f"{value:g}"

    suite = load_from_disk(str(needs("evaluation_suite")))
    return {
        name: [[written(part) for part in (answer if isinstance(answer, list) else [answer])] for answer in rows["answer"]]
        for name, rows in suite.items()
    }


VARIANTS = {
    "as it is": lambda gold: gold,
    "with spaces": lambda gold: f"  {gold} ",
    "with a full stop": lambda gold: f"{gold.strip()}.",
    "in dollars": lambda gold: f"${gold.strip()}$" if "$" not in gold else gold,
    "in display style": lambda gold: gold.replace("\\frac", "\\dfrac"),
    "in sized brackets": lambda gold: (
        gold if "\\left" in gold else gold.replace("(", "\\left(").replace(")", "\\right)").replace("\\\\left(", "\\(")
    ),
    "with spaces around signs": lambda gold: gold.replace("+", " + ").replace("=", " = "),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_gold_of_the_benchmarks_is_readable_and_equals_itself(accuracy, variant):
    for name, rows in benchmarks().items():
        golds = [gold for row in rows for gold in row]
        assert all(accuracy.readable(golds)), name
        answers = [VARIANTS[variant](gold.strip().replace("\n", " ")) for gold in golds]
        found = accuracy.equivalence([([gold], answer) for gold, answer in zip(golds, answers)])
        assert [gold for gold, verdict in zip(golds, found) if verdict is not Verdict.MATCHED] == [], name


def test_golds_of_different_problems_are_different_answers(accuracy):
    """A sample; the few matches are one answer in two spellings."""
    draw = random.Random(0)
    for name, rows in benchmarks().items():
        pairs = []
        for _ in range(400):
            gold, other = draw.choice(rows), draw.choice(rows)
            plain = [{part.replace("$", "").replace(" ", "").strip() for part in row} for row in (gold, other)]
            if not plain[0] & plain[1]:
                pairs.append((gold, other[0]))
        found = accuracy.equivalence(pairs)
        matched = [(gold[0], other) for (gold, other), verdict in zip(pairs, found) if verdict is Verdict.MATCHED]
        assert [pair for pair in matched if not _spelled_alike(*pair)] == [], name


def _spelled_alike(gold: str, other: str) -> bool:
    """But for degrees, dollars, braces and spaces, and i behind or before a root."""
    one, two = (re.sub(r"\\circ|[\\${}^ \n]", "", text).replace("sqrt3i", "isqrt3") for text in (gold, other))
    return one == two


UNEQUAL_SOLUTIONS = 15  # six give a letter only, nine another value, as reading them shows


def test_solutions_of_the_training_set_are_right_but_for_those_that_are_not(accuracy):
    rows = json.loads(needs("train_data/deepscaler_hard-1k.json").read_text(encoding="utf-8"))
    found = accuracy.judge([([row["answer"]], row["solution"]) for row in rows])
    assert len(rows) == 1000
    assert sum(verdict is not Verdict.MATCHED for verdict in found) == UNEQUAL_SOLUTIONS
    assert all(accuracy.readable([row["answer"] for row in rows]))
